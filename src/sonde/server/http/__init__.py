"""Serves requests: endpoints, bodies, access tokens, events, limits on connections."""
