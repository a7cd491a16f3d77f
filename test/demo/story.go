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

// selectRows is what is asked before and after.
const selectRows = "SELECT id, name FROM test"

// accessDenied is what the client says then.
const accessDenied = "ERROR 1045"

// restoredWord is what the original operators said, too.
const restoredWord = "Restoring DB have succeed"

// create the claim in a namespace where nobody has one of this name.
func (d *demo) create(ctx context.Context) error {
	if err := d.choose(ctx); err != nil {
		return err
	}
	return d.apply(ctx)
}

// applyCommand takes the original claim as it is, but for its namespace, and for another image where there is to be one.
func (d *demo) applyCommand() (command, error) {
	b, err := os.ReadFile(claimFile)
	claim, script := string(b), ""
	change := func(line, is string) {
		claim, script = strings.Replace(claim, line, is, 1), script+fmt.Sprintf("s|%s|%s|;", line, is)
	}
	if d.namespace != defaultNamespace {
		change("namespace: default", "namespace: "+d.namespace)
	}
	if d.image != "" {
		change("image: mysql:5.7", "image: "+d.image)
	}
	if script == "" {
		return command{args: []string{"apply", "-f", claimFile}}, nil
	}
	c := command{args: []string{"apply", "-f", "-"}, stdin: claim}
	c.text = fmt.Sprintf("sed '%s' %s | %s", strings.TrimSuffix(script, ";"), claimFile, d.kube.shell(c))
	return c, err
}

// apply the claim, and wait until its server takes clients.
func (d *demo) apply(ctx context.Context) error {
	c, err := d.applyCommand()
	if err != nil {
		return err
	}
	if !d.applied {
		d.applied = true
		d.stays(d.kube.shell(command{args: []string{"delete", resource, d.name}}) + "   # takes a backup first, which stays")
	}
	d.last = ""
	if err := d.kube.enterCommand(ctx, c); err != nil {
		return err
	}
	if err := d.follow(ctx, claim.ready); err != nil {
		return err
	}
	return d.kube.enter(ctx, "get", resource, d.name)
}

// sessionCommand types what the original operators' users typed.
func (d *demo) sessionCommand() (command, error) {
	b, err := os.ReadFile(sessionFile)
	c := d.sql(d.was, string(b))
	c.text = "sql " + quote(d.was) + ` "$(cat ` + sessionFile + `)"`
	return c, err
}

// session of the original, and the rows that are there after it.
func (d *demo) session(ctx context.Context) error {
	c, err := d.sessionCommand()
	if err != nil {
		return err
	}
	d.screen.show(d.sqlFunction())
	if err := d.kube.enterCommand(ctx, c); err != nil {
		return err
	}
	d.rows, err = d.kube.answer(ctx, d.sql(d.was, selectRows))
	if err == nil && !strings.Contains(d.rows, "some data-2") {
		err = fmt.Errorf("the rows are not there: %q", d.rows)
	}
	return err
}

// remove the claim, and see what is left.
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
	if len(records) != 1 || records[0].Status.Phase != v1.BackupProven {
		return fmt.Errorf("want one backup that is proved, got %d of this claim", len(records))
	}
	return nil
}

// showBackups, and return those of this claim.
func (d *demo) showBackups(ctx context.Context) ([]v1.MySQLBackup, error) {
	if err := d.kube.enter(ctx, "get", "msb"); err != nil {
		return nil, err
	}
	return d.records(ctx)
}

// delete the claim, and say what happens meanwhile.
func (d *demo) delete(ctx context.Context) error {
	begin := time.Now()
	following, stop := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		_ = d.follow(following, func(claim) bool { return false }) // It is stopped.
	}()
	waiting, cancel := context.WithTimeout(ctx, d.patience)
	err := d.kube.enter(waiting, "delete", resource, d.name)
	cancel()
	stop()
	<-followed
	if err != nil {
		return fmt.Errorf("the claim is still there, %s after it was deleted: %w", time.Since(begin).Round(time.Second), err)
	}
	d.screen.sayf("The claim is gone, %.1f s after it was deleted.", time.Since(begin).Seconds())
	return nil
}

// again creates the claim, and compares what is there with what was.
func (d *demo) again(ctx context.Context) error {
	if err := d.apply(ctx); err != nil {
		return err
	}
	rows, err := d.kube.show(ctx, d.sql(d.was, selectRows))
	if err != nil {
		return err
	}
	if tableOf(rows) != d.rows {
		return fmt.Errorf("these are other rows than before the claim was deleted:\n%s", d.rows)
	}
	message := d.message(ctx)
	if !strings.Contains(message, restoredWord) {
		return fmt.Errorf("the claim does not say %q, but %q", restoredWord, message)
	}
	d.screen.sayf("The same rows as before.")
	return nil
}

func (d *demo) patchCommand() command {
	patch := fmt.Sprintf(`{"spec":{"password":%q}}`, newPassword)
	c := command{args: []string{"patch", resource, d.name, "--type=merge", "--patch-file=/dev/stdin"}, stdin: patch}
	c.text = d.kube.shell(c) + " <<<" + quote(patch)
	return c
}

// change the password in the claim, and see that the server follows.
func (d *demo) change(ctx context.Context) error {
	if err := d.kube.enterCommand(ctx, d.patchCommand()); err != nil {
		return err
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
	d.screen.sayf("The new password is accepted, %.1f s after the change, and the old one for a while:", time.Since(begin).Seconds())
	old := d.sql(d.was, "SELECT CURRENT_USER()")
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

// enterRefusable shows a login that may be refused already: not every server keeps an old password.
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

// refused waits until a login is.
func (d *demo) refused(ctx context.Context, login command) error {
	said := time.Now()
	return d.poll(ctx, func(ctx context.Context) error {
		_, err := d.kube.answer(ctx, login)
		if err != nil && strings.Contains(err.Error(), accessDenied) {
			return nil
		}
		if time.Since(said) > 15*time.Second {
			said = time.Now()
			d.screen.sayf("still waiting for the old password to end: %s", d.credentials(ctx))
		}
		if err != nil {
			return err
		}
		return errors.New("the old password is still accepted")
	})
}

// credentials are what the claim says of them.
func (d *demo) credentials(ctx context.Context) string {
	out, err := d.kube.ask(ctx, "get", resource, d.name, "--output=jsonpath={.status.credentials.message}")
	if err != nil {
		return err.Error()
	}
	return out
}
