"""Who is there and who leads: topics, their options, and the brokers that hold them."""
