package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// Names of the step in which rows are deleted by mistake.
const (
	ordersName     = "orders"
	ordersBefore   = ordersName + "-before"
	ordersDatabase = "shop"
	ordersPassword = "orders-password"
	ordersImage    = "mysql:8.4" // MySQL 5.7 cannot archive its binary log in a way that the product supports.
)

// SQL statements of the step in which rows are deleted by mistake.
const (
	createOrders = "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR(20)); " +
		"INSERT INTO orders VALUES (1, 'lamp'), (2, 'chair'), (3, 'table')"
	deleteOrders = "DELETE FROM orders"
	laterOrder   = "INSERT INTO orders VALUES (4, 'shelf')"
	selectOrders = "SELECT id, item FROM orders ORDER BY id"
	selectTime   = "SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ') AS now"
)

// timestamp matches the result of selectTime.
var timestamp = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z`)

// mistake deletes all rows of a table, and brings them back in the running server. Then it starts a second server with
// the data of the second before.
func (d *demo) mistake(ctx context.Context) error {
	orders := d.serverOf(ordersName)
	d.stays(d.deleteCommand(ordersName))
	if err := orders.createOrders(ctx); err != nil {
		return err
	}
	moment, err := orders.deleteAll(ctx)
	if err != nil {
		return err
	}
	if err := orders.plugin(ctx, "undo", ordersName, "--before", moment, "--yes"); err != nil {
		return err
	}
	d.screen.sayf("The rows are back, and the later row is still there:")
	if err := orders.hasRows(ctx, "lamp", "chair", "table", "shelf"); err != nil {
		return err
	}
	d.stays(d.deleteCommand(ordersBefore))
	if err := orders.plugin(ctx, "restore", "--from", ordersName, "--to", ordersBefore, "--at", moment); err != nil {
		return err
	}
	before := d.serverOf(ordersBefore)
	if err := before.learnPassword(ctx); err != nil {
		return err
	}
	d.screen.sayf("The server of the second before, next to the one that runs:")
	d.screen.show(before.sqlFunction())
	return before.hasRows(ctx, "lamp", "chair", "table")
}

// serverOf returns a demo whose commands apply to the instance with the given name.
func (d *demo) serverOf(name string) *demo {
	other := *d
	other.name, other.database, other.last = name, ordersDatabase, ""
	if d.api.stated {
		other.password, other.originalPassword = ordersPassword, ordersPassword
	}
	return &other
}

// ordersManifest returns the manifest of the instance whose rows are deleted by mistake and brought back.
func (d *demo) ordersManifest() (string, error) {
	raw, err := os.ReadFile(d.api.file)
	if err != nil {
		return "", err
	}
	group := regexp.MustCompile(`(?m)^apiVersion: .*$`).FindString(string(raw))
	text := fmt.Sprintf("%s\nkind: MySQL\nmetadata:\n  name: %s\nspec:\n  image: %s\n  database: %s\n", group, d.name,
		ordersImage, d.database)
	if d.api.stated {
		text += "  password: " + ordersPassword + "\n"
	}
	return text + "  storageSize: 1Gi\n  backup:\n    storeRef:\n      name: " + d.storeName() + "\n", nil
}

// createOrders creates the instance whose rows are deleted later, and waits until its binary log is archived.
func (d *demo) createOrders(ctx context.Context) error {
	manifest, err := d.ordersManifest()
	if err != nil {
		return err
	}
	c := command{args: []string{"apply", "-f", "-"}, stdin: manifest}
	c.text = d.kube.shell(c) + " <<'END'\n" + manifest + "END"
	if err := d.kube.enterCommand(ctx, c); err != nil {
		return err
	}
	if err := d.follow(ctx, claim.ready); err != nil {
		return err
	}
	if err := d.learnPassword(ctx); err != nil {
		return err
	}
	d.screen.show(d.sqlFunction())
	if err := d.kube.enterCommand(ctx, d.sql(d.password, createOrders)); err != nil {
		return err
	}
	d.screen.sayf("The controller archives the binary log, and takes a first backup.")
	return d.poll(ctx, func(ctx context.Context) error {
		from, err := d.kube.ask(ctx, "get", d.api.resource, d.name, "--output=jsonpath={.status.backups.recoverableFromTime}")
		if err == nil && from == "" {
			err = errors.New("the instance cannot be recovered to a time yet")
		}
		return err
	})
}

// deleteAll deletes all rows, and then inserts another one. It returns a time before the deletion, to which the rows
// are recovered.
func (d *demo) deleteAll(ctx context.Context) (string, error) {
	out, err := d.kube.show(ctx, d.sql(d.password, selectTime))
	if err != nil {
		return "", err
	}
	moment := timestamp.FindString(out)
	if moment == "" {
		return "", fmt.Errorf("the server does not print its time: %s", out)
	}
	time.Sleep(time.Second)
	d.screen.sayf("A DELETE without a WHERE, and another client that goes on:")
	for _, statement := range []string{deleteOrders, laterOrder} {
		if err := d.kube.enterCommand(ctx, d.sql(d.password, statement)); err != nil {
			return "", err
		}
	}
	return moment, d.hasRows(ctx, "shelf")
}

// hasRows shows the rows, and checks that they contain these items only.
func (d *demo) hasRows(ctx context.Context, items ...string) error {
	out, err := d.kube.show(ctx, d.sql(d.password, selectOrders))
	if err != nil {
		return err
	}
	rows := strings.Count(tableOf(out), "\n") - 4 // The table has a header and three lines.
	for _, item := range items {
		if !strings.Contains(out, "| "+item+" ") {
			return fmt.Errorf("the row %q is missing", item)
		}
	}
	if rows != len(items) {
		return fmt.Errorf("want %d rows, got %d", len(items), rows)
	}
	return nil
}

func (d *demo) deleteCommand(name string) string {
	return d.kube.shell(command{args: []string{"delete", d.api.resource, name}}) + "   # takes a backup first, which stays"
}

// plugin runs a command of kubectl mysql, and shows it with its output.
func (d *demo) plugin(ctx context.Context, args ...string) error {
	args = append(args, "--namespace", d.namespace, "--kind", d.api.instanceKind)
	d.screen.show("$ kubectl mysql " + strings.Join(args, " ") + "\n")
	cmd := program(ctx, "go", append([]string{"run", "./controller/kubectl-mysql"}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.kube.env, d.screen, d.screen
	return ended(ctx, "kubectl mysql "+args[0], cmd.Run())
}
