package agent

// PasswordVariables are those of the environment by which an image's entrypoint is told how
// root is to be let in to a new database, and without which it makes none
// (docker_verify_minimum_env and file_env in docker-entrypoint.sh of docker-library/mysql
// and of MariaDB/mariadb-docker). It knows each of them by both prefixes.
func PasswordVariables() []string {
	var out []string
	for _, prefix := range []string{"MYSQL_", "MARIADB_"} {
		for _, choice := range []string{
			"ROOT_PASSWORD", "ROOT_PASSWORD_FILE", "ROOT_PASSWORD_HASH", "ROOT_PASSWORD_HASH_FILE", "RANDOM_ROOT_PASSWORD",
			"ALLOW_EMPTY_PASSWORD", "ALLOW_EMPTY_ROOT_PASSWORD",
		} {
			out = append(out, prefix+choice)
		}
	}
	return out
}
