"""rayner: contrastive entity recognition and linking on Ray."""
