"""The collector: asks every broker for its replicas at a fixed rate, and writes observations.

* ``wire/``: connections to the brokers, requests, and readers for fixed layouts of responses.
* ``settings/``: Kafka's settings as columns, and the thresholds of the twin's own configuration.
* ``scraping/``: metrics of brokers, scraped from their JMX exporters.
* ``groups/``: the requests of one round over the consumer groups, and its result.
* ``sources/``: one file for each source, which reads one kind of data and reports its problems.
* ``cycle/``: reads all sources, joins their readings and encodes them as messages for the bus.

The files beside them are shared: ``source`` declares what a source is, ``reading`` what it returns,
``listing`` holds the topics and partitions of the cluster as arrays.
"""
