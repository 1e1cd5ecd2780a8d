"""The whole environment, a variable a line."""
import os

print("\n".join(f"{k}={v}" for k, v in os.environ.items()), flush=True)
