"""The one place that puts files and folders in place whole or not at all, locks them, and knows local paths
from object storage.
"""
