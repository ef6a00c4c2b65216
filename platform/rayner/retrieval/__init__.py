"""What finds: the entities of a knowledge base by name."""
