"""Draw graphs and deconvolutions: pictures made of plain numbers and texts."""
