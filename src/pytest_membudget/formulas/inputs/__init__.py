"""Models from what people have: configurations, arguments of frameworks, shapes, modules."""
