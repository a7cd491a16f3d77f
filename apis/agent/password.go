package agent

// PasswordVariables are those of the environment by which an image's entrypoint is told how
// root is to be let in to a new database, and without which it makes none
// (docker_verify_minimum_env and file_env in docker-entrypoint.sh of docker-library/mysql
// and of MariaDB/mariadb-docker). It knows each of them by both prefixes.
func PasswordVariables() []string {
	return []string{
		"MYSQL_ROOT_PASSWORD", "MYSQL_ROOT_PASSWORD_FILE", "MYSQL_ROOT_PASSWORD_HASH", "MYSQL_ROOT_PASSWORD_HASH_FILE",
		"MYSQL_RANDOM_ROOT_PASSWORD", "MYSQL_ALLOW_EMPTY_PASSWORD", "MYSQL_ALLOW_EMPTY_ROOT_PASSWORD",
		"MARIADB_ROOT_PASSWORD", "MARIADB_ROOT_PASSWORD_FILE", "MARIADB_ROOT_PASSWORD_HASH", "MARIADB_ROOT_PASSWORD_HASH_FILE",
		"MARIADB_RANDOM_ROOT_PASSWORD", "MARIADB_ALLOW_EMPTY_PASSWORD", "MARIADB_ALLOW_EMPTY_ROOT_PASSWORD",
	}
}
