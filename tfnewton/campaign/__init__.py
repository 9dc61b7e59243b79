"""THE EXPERIMENTS of section 6: recipes, runs by name, tables, and the results that come with the package."""
