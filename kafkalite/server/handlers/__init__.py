"""One file per API, or per small family of APIs: request in, response out."""
