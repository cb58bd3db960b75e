"""What a board is and does: chip, versions of its software, load, clocks, memory. It only reads."""
