"""The answers of the API as typed records: the server encodes items from them, clients decode answers by them, and the
OpenAPI document is generated from them."""
