<?php
// Says by which cipher it speaks with a server, which it has verified: verify.php HOST PORT CA-FILE, the password by standard input.
[, $host, $port, $ca] = $argv;
$connection = new PDO("mysql:host=$host;port=$port", 'root', rtrim(fgets(STDIN), "\n"), [
    PDO::MYSQL_ATTR_SSL_CA => $ca,
    PDO::MYSQL_ATTR_SSL_VERIFY_SERVER_CERT => true,
]);
echo $connection->query("SHOW STATUS LIKE 'Ssl_cipher'")->fetchColumn(1), "\n";
