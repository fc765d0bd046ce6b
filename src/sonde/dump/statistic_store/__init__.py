"""Statistics of many steps as Parquet files, written and read by DuckDB."""
