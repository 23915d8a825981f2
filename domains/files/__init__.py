"""Records of archived files, by time bucket."""
