"""Authentication, permissions and views of the REST API of firms."""
