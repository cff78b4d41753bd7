"""Adapters to other libraries, one file each. Import the file of the library you use; nothing here imports another."""
