"""What is made of a build for others: TFLite files, projects for a board, segments of a model, and
encrypted models.
"""
