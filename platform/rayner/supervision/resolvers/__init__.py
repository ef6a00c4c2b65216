"""Coreference resolvers: from a document to its chains."""
