"""What people look at: pictures of what each stage found."""
