import java.lang.instrument.Instrumentation;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * What a broker of Amazon MSK makes of a token: a URL, signed as AWS documents it for presigned
 * requests (Signature Version 4: method, path, sorted query, header host, hash of no body).
 *
 * <p>As MSK it answers "Access denied" to each wrong one, and prints the reason. The keys are in a
 * file, read for each login: access key, secret, session token or -, and ARN. As a Java agent the
 * jar is on a broker's class path.
 */
public final class SignedUrls implements AuthenticateCallbackHandler {

  private static final DateTimeFormatter AT =
      DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);
  private static final Set<String> UNSIGNED = Set.of("X-Amz-Signature", "User-Agent");
  private static final Duration SKEW = Duration.ofMinutes(5);

  private Path keys;
  private String region;

  public static void premain(String options, Instrumentation instrumentation) {}

  @Override
  public void configure(
      Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
    keys = Path.of(System.getProperty("msk.keys")); // options would be those of the broker's login
    region = System.getProperty("msk.region");
  }

  @Override
  public void close() {}

  @Override
  public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
    for (Callback each : callbacks) {
      if (!(each instanceof OAuthBearerValidatorCallback asked)) {
        throw new UnsupportedCallbackException(each);
      }
      try {
        asked.token(verified(asked.tokenValue()));
      } catch (Exception why) {
        System.err.println("refused: " + why.getMessage());
        throw new SaslAuthenticationException("[" + UUID.randomUUID() + "]: Access denied");
      }
    }
  }

  private OAuthBearerToken verified(String token) throws Exception {
    byte[] decoded = Base64.getUrlDecoder().decode(token);
    URI url = URI.create(new String(decoded, StandardCharsets.US_ASCII));
    List<String> signed = new ArrayList<>();
    Map<String, String> given = new TreeMap<>();
    for (String pair : url.getRawQuery().split("&")) {
      String name = pair.substring(0, pair.indexOf('='));
      String value = pair.substring(pair.indexOf('=') + 1);
      given.put(name, URLDecoder.decode(value, StandardCharsets.UTF_8));
      if (!UNSIGNED.contains(name)) {
        signed.add(pair);
      }
    }
    signed.sort(null);
    String[] scope = given.get("X-Amz-Credential").split("/");
    need(scope.length == 5, "the credential has no scope");
    String at = given.get("X-Amz-Date");
    need(url.getHost().equals("kafka." + region + ".amazonaws.com"), "host " + url.getHost());
    need(scope[2].equals(region), "region " + scope[2]);
    need(scope[3].equals("kafka-cluster") && scope[4].equals("aws4_request"), "the service");
    need(scope[1].equals(at.substring(0, 8)), "two dates");
    need(given.get("Action").equals("kafka-cluster:Connect"), "action");
    need(given.get("X-Amz-Algorithm").equals("AWS4-HMAC-SHA256"), "algorithm");
    need(given.get("X-Amz-SignedHeaders").equals("host"), "headers");
    String[] key = keyOf(scope[0]);
    need(given.getOrDefault("X-Amz-Security-Token", "-").equals(key[2]), "session token");
    Instant begin = AT.parse(at, Instant::from);
    Instant end = begin.plusSeconds(Long.parseLong(given.get("X-Amz-Expires")));
    Instant now = Instant.now();
    need(begin.isBefore(now.plus(SKEW)) && now.isBefore(end), "not now");
    String query = signed.stream().collect(Collectors.joining("&"));
    String request = "GET\n/\n" + query + "\nhost:" + url.getHost() + "\n\nhost\n" + sha256("");
    String within = String.join("/", Arrays.copyOfRange(scope, 1, 5));
    String text = "AWS4-HMAC-SHA256\n" + at + "\n" + within + "\n" + sha256(request);
    byte[] signing = ("AWS4" + key[1]).getBytes(StandardCharsets.UTF_8);
    for (String part : within.split("/")) {
      signing = hmac(signing, part);
    }
    String signature = HexFormat.of().formatHex(hmac(signing, text));
    need(signature.equals(given.get("X-Amz-Signature")), "signature");
    System.err.println("let in: " + key[3] + " with " + given.get("User-Agent"));
    return new Login(token, begin.toEpochMilli(), end.toEpochMilli(), "IAM." + key[3]);
  }

  private String[] keyOf(String id) throws Exception {
    for (String line : Files.readAllLines(keys)) {
      String[] words = line.split(" ");
      if (words[0].equals(id)) {
        return words;
      }
    }
    throw new IllegalArgumentException("unknown key " + id);
  }

  private static void need(boolean holds, String what) {
    if (!holds) {
      throw new IllegalArgumentException(what);
    }
  }

  private static String sha256(String text) throws Exception {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
  }

  private static byte[] hmac(byte[] key, String text) throws Exception {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(key, "HmacSHA256"));
    return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
  }

  private record Login(String value, Long startTimeMs, long lifetimeMs, String principalName)
      implements OAuthBearerToken {
    @Override
    public Set<String> scope() {
      return Set.of();
    }
  }
}
