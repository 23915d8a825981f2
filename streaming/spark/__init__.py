"""The stream on Spark: its session and options, its Python workers, the tasks of the wide way, what failures mean."""
