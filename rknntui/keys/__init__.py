"""Actions and their keys: registry, keymap, palette, keys in texts, equal command lines."""
