"""Corpora: schema, formats, words, windows, batches."""
