import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;

/** Says by which cipher it speaks with a server, which it has verified: HOST PORT CA-FILE, the password by standard input. */
class Verify {
    public static void main(String[] args) throws Exception {
        String password = new BufferedReader(new InputStreamReader(System.in)).readLine();
        String url = "jdbc:mariadb://" + args[0] + ":" + args[1] + "/?useSSL=true&serverSslCert=" + args[2];
        try (Connection connection = DriverManager.getConnection(url, "root", password);
                ResultSet status = connection.createStatement().executeQuery("SHOW STATUS LIKE 'Ssl_cipher'")) {
            status.next();
            System.out.println(status.getString(2));
        }
    }
}
