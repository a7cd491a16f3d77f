package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// selectRows is the query that is run before the deletion and after the re-creation.
const selectRows = "SELECT id, name FROM test"

// accessDenied is part of the client's error for a wrong password.
const accessDenied = "ERROR 1045"

// restoredWord is a status message that the product has taken over unchanged from the operators that it replaces.
const restoredWord = "Restoring DB have succeed"

// create selects a namespace that has no object with the demo's name, and creates the claim or MySQL there.
func (d *demo) create(ctx context.Context) error {
	if err := d.choose(ctx); err != nil {
		return err
	}
	return d.apply(ctx)
}

// applyCommand returns a command that applies the manifest. It changes only the namespace, and the image if the user
// has specified one.
func (d *demo) applyCommand() (command, error) {
	b, err := os.ReadFile(d.api.file)
	if err != nil {
		return command{}, err
	}
	claim, script := string(b), ""
	change := func(line, value string) {
		claim, script = strings.Replace(claim, line, value, 1), script+fmt.Sprintf("s|%s|%s|;", line, value)
	}
	if d.namespace != defaultNamespace {
		change("namespace: default", "namespace: "+d.namespace)
	}
	if d.image != "" {
		change("image: "+d.api.image, "image: "+d.image)
	}
	if script == "" {
		return command{args: []string{"apply", "-f", d.api.file}}, nil
	}
	c := command{args: []string{"apply", "-f", "-"}, stdin: claim}
	c.text = fmt.Sprintf("sed '%s' %s | %s", strings.TrimSuffix(script, ";"), d.api.file, d.kube.shell(c))
	return c, nil
}

// apply applies the manifest and waits until the server accepts clients.
func (d *demo) apply(ctx context.Context) error {
	c, err := d.applyCommand()
	if err != nil {
		return err
	}
	if !d.applied {
		d.applied = true
		d.stays(d.kube.shell(command{args: []string{"delete", d.api.resource, d.name}}) + "   # takes a backup first, which stays")
	}
	d.last = ""
	if err := d.kube.enterCommand(ctx, c); err != nil {
		return err
	}
	if err := d.follow(ctx, claim.ready); err != nil {
		return err
	}
	if err := d.kube.enter(ctx, "get", d.api.resource, d.name); err != nil {
		return err
	}
	return d.learnPassword(ctx)
}

// sessionCommand returns a command that runs the SQL statements of the original operator's example (sessionFile).
func (d *demo) sessionCommand() (command, error) {
	b, err := os.ReadFile(sessionFile)
	c := d.sql(d.originalPassword, string(b))
	c.text = "sql " + d.shownPassword(d.originalPassword) + ` "$(cat ` + sessionFile + `)"`
	return c, err
}

// session runs the SQL statements of the original operator's example, and reads the rows that they create.
func (d *demo) session(ctx context.Context) error {
	c, err := d.sessionCommand()
	if err != nil {
		return err
	}
	d.screen.show(d.sqlFunction())
	if err := d.kube.enterCommand(ctx, c); err != nil {
		return err
	}
	d.rows, err = d.kube.answer(ctx, d.sql(d.originalPassword, selectRows))
	if err == nil && !strings.Contains(d.rows, "some data-2") {
		err = fmt.Errorf("the rows are not there: %q", d.rows)
	}
	return err
}

// remove deletes the object and shows the backup that is left.
func (d *demo) remove(ctx context.Context) error {
	if err := d.delete(ctx); err != nil {
		return err
	}
	d.screen.sayf("What is left:")
	if err := d.kube.enter(ctx, "get", "deployment,persistentvolumeclaim"); err != nil {
		return err
	}
	records, err := d.showBackups(ctx)
	if err != nil {
		return err
	}
	if len(records) != 1 || records[0].Status.Phase != v1.BackupVerified {
		return fmt.Errorf("want one backup that is proved, got %d of this %s", len(records), d.api.noun)
	}
	return nil
}

// showBackups lists the backups with additional kubectl arguments. It returns the BackupRecords of the demo's
// instance.
func (d *demo) showBackups(ctx context.Context, args ...string) ([]v1.BackupRecord, error) {
	if err := d.kube.enter(ctx, append([]string{"get", "msb"}, args...)...); err != nil {
		return nil, err
	}
	return d.records(ctx)
}

// delete deletes the object and prints its status during the deletion.
func (d *demo) delete(ctx context.Context) error {
	begin := time.Now()
	following, stop := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		_ = d.follow(following, func(claim) bool { return false }) // It was stopped.
	}()
	waiting, cancel := context.WithTimeout(ctx, d.timeout)
	err := d.kube.enter(waiting, "delete", d.api.resource, d.name)
	cancel()
	stop()
	<-followed
	if err != nil {
		return fmt.Errorf("the %s is still there, %s after it was deleted: %w", d.api.noun, time.Since(begin).Round(time.Second), err)
	}
	d.screen.sayf("The %s is gone, %.1f s after it was deleted.", d.api.noun, time.Since(begin).Seconds())
	return nil
}

// again creates the object again, and checks that it has the same rows as before the deletion.
func (d *demo) again(ctx context.Context) error {
	if err := d.apply(ctx); err != nil {
		return err
	}
	rows, err := d.kube.show(ctx, d.sql(d.originalPassword, selectRows))
	if err != nil {
		return err
	}
	if tableOf(rows) != d.rows {
		return fmt.Errorf("these are other rows than before the %s was deleted:\n%s", d.api.noun, d.rows)
	}
	message := d.message(ctx)
	if !strings.Contains(message, restoredWord) {
		return fmt.Errorf("the %s does not say %q, but %q", d.api.noun, restoredWord, message)
	}
	d.screen.sayf("The same rows as before.")
	return nil
}

// change changes the password in the manifest or in a Secret, and waits until the server accepts it.
func (d *demo) change(ctx context.Context) error {
	if !d.api.stated {
		d.stays(d.kube.shell(command{args: []string{"delete", "secret", d.passwordSecret()}}))
	}
	for _, c := range d.changeCommands() {
		if err := d.kube.enterCommand(ctx, c); err != nil {
			return err
		}
	}
	begin := time.Now()
	err := d.poll(ctx, func(ctx context.Context) error {
		_, err := d.kube.answer(ctx, d.sql(newPassword, "SELECT 1"))
		return err
	})
	if err != nil {
		return fmt.Errorf("the new password is not accepted: %w", err)
	}
	d.password = newPassword
	d.screen.sayf("The new password is accepted, %.1f s after the change, and the old one for a while:",
		time.Since(begin).Seconds())
	old := d.sql(d.originalPassword, "SELECT CURRENT_USER()")
	if err := d.enterRefusable(ctx, old); err != nil {
		return err
	}
	if err := d.refused(ctx, old); err != nil {
		return err
	}
	d.screen.sayf("The old password is refused, and the new one is accepted:")
	if printed, err := d.kube.show(ctx, old); err == nil {
		return fmt.Errorf("the old password is accepted again: %s", printed)
	}
	rows, err := d.kube.show(ctx, d.sql(newPassword, selectRows))
	if err == nil && tableOf(rows) != d.rows {
		err = errors.New("these are other rows than before")
	}
	return err
}

// enterRefusable shows a login with the old password after a password change. The login may fail, because not every
// server keeps an old password.
func (d *demo) enterRefusable(ctx context.Context, login command) error {
	printed, err := d.kube.show(ctx, login)
	if err != nil && !strings.Contains(printed, accessDenied) {
		return err
	}
	if err == nil {
		d.screen.sayf("%s", d.credentials(ctx))
	}
	return nil
}

// refused waits until the server refuses a login with the old password.
func (d *demo) refused(ctx context.Context, login command) error {
	start := time.Now()
	return d.poll(ctx, func(ctx context.Context) error {
		_, err := d.kube.answer(ctx, login)
		if err != nil && strings.Contains(err.Error(), accessDenied) {
			return nil
		}
		if time.Since(start) > 15*time.Second {
			start = time.Now()
			d.screen.sayf("still waiting for the old password to end: %s", d.credentials(ctx))
		}
		if err != nil {
			return err
		}
		return errors.New("the old password is still accepted")
	})
}

// credentials returns the status message about the password.
func (d *demo) credentials(ctx context.Context) string {
	out, err := d.kube.ask(ctx, "get", d.api.resource, d.name, "--output=jsonpath={.status.internal.credentials.message}")
	if err != nil {
		return err.Error()
	}
	return out
}
