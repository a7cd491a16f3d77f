"""Says by which cipher it speaks with a server, which it has verified: verify.py HOST PORT CA-FILE, the password by standard input."""

import sys

import pymysql

host, port, ca = sys.argv[1:]
connection = pymysql.connect(
    host=host,
    port=int(port),
    user="root",
    password=sys.stdin.readline().rstrip("\n"),
    ssl_ca=ca,
    ssl_verify_cert=True,
    ssl_verify_identity=True,
)
with connection, connection.cursor() as cursor:
    cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
    print(cursor.fetchone()[1])
