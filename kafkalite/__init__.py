"""kafkalite: a small broker that every Kafka client can talk to, with a Spark source and sink that need no JAR."""
