"""How good predictions are: pure functions from documents or counts to numbers."""
