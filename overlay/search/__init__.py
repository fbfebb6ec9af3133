"""The parts that all engines share: analysis, the query planner, the re-ranker, facets, prices and sort keys."""
