import sys

print(f"Hello, {sys.argv[0]}!")
