"""Metrics of brokers, scraped from their JMX exporters."""
