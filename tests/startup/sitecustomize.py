"""What each Python process below the tests does first: look for garbage seldom.

They start by the hundred, live for seconds, and would spend a quarter of their processor time on looking for
garbage among modules that they have just imported.
"""

import gc

gc.set_threshold(100_000, 50, 1000)
