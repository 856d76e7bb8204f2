//! Pixels, regions, masks, spatial pipelines, and how likely a crop sees the private region.
