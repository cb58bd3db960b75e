"""What makes a calibration dataset doubtful: its images, its arrays, its size."""
