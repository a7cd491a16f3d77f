package agent

// PasswordVariables returns the environment variables with which an image's entrypoint sets root's password. Without
// one of them, the entrypoint creates no database (docker_verify_minimum_env and file_env in docker-entrypoint.sh of
// docker-library/mysql and of MariaDB/mariadb-docker). MariaDB's entrypoint also accepts the prefix MARIADB_.
func PasswordVariables() []string {
	return []string{
		"MYSQL_ROOT_PASSWORD", "MYSQL_ROOT_PASSWORD_FILE", "MYSQL_ROOT_PASSWORD_HASH", "MYSQL_ROOT_PASSWORD_HASH_FILE",
		"MYSQL_RANDOM_ROOT_PASSWORD", "MYSQL_ALLOW_EMPTY_PASSWORD", "MYSQL_ALLOW_EMPTY_ROOT_PASSWORD",
		"MARIADB_ROOT_PASSWORD", "MARIADB_ROOT_PASSWORD_FILE", "MARIADB_ROOT_PASSWORD_HASH",
		"MARIADB_ROOT_PASSWORD_HASH_FILE",
		"MARIADB_RANDOM_ROOT_PASSWORD", "MARIADB_ALLOW_EMPTY_PASSWORD", "MARIADB_ALLOW_EMPTY_ROOT_PASSWORD",
	}
}
