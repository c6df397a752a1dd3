"""Where a release of WordPress can be had: one file a source, behind one interface."""
