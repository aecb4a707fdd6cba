"""What turns do to the files of a workspace: checkpoints, what changed, and undo. Content is kept outside the workspace."""
