"""What a model is given beside the question: who it is, what the folder says and holds, and how a long history fits its window."""
