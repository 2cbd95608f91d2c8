import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;

/** Kafka's Java client with the settings in a file: it asks for the cluster each second, so long. */
public final class Client {
  private Client() {}

  public static void main(String[] given) throws Exception {
    Properties settings = new Properties();
    try (var reader = Files.newBufferedReader(Path.of(given[0]))) {
      settings.load(reader);
    }
    try (Admin admin = Admin.create(settings)) {
      admin.describeCluster().nodes().get(); // a busy machine may take long for the first
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(given[1]));
      while (System.nanoTime() < end) {
        admin.describeCluster().nodes().get();
        Thread.sleep(1_000);
      }
    }
  }
}
