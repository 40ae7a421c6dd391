package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	lab  *Lab
	done chan struct{}
	err  error // of Wait, once done is closed
	// mayEnd: a process's starter restarts it.
	mayEnd bool
	// onNode: a process of a real node, which may have mounts.
	onNode bool
}

// thread has its own OS thread: a child with Pdeathsig dies when the thread that started it ends (prctl(2),
// PR_SET_PDEATHSIG).
type thread chan func()

func newThread() thread {
	work := make(thread)
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
}

func (t thread) do(f func() error) error {
	done := make(chan error)
	t <- func() { done <- f() }
	return <-done
}

var spawn = newThread()

// Pdeathsig then means the death of this process.
func startChild(cmd *exec.Cmd) error { return spawn.do(cmd.Start) }

func (l *Lab) start(name, program string, args ...string) (*Process, error) {
	return l.startOn(spawn, name, exec.Command(program, args...), 0)
}

func (l *Lab) startOn(t thread, name string, cmd *exec.Cmd, namespaces uintptr) (*Process, error) {
	logPath := filepath.Join(l.dir, name+".log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Process{name: name, log: logPath, cmd: cmd, lab: l, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if cmd.SysProcAttr == nil { // otherwise a container, which sees nothing of the lab
		p.cmd.Dir = l.dir
		p.cmd.Env = append(l.environment(), cmd.Env...)
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: namespaces}
		if t == spawn {
			// On other threads the child dies with its PID namespace, and package syscall would take an
			// invisible parent for dead.
			p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		}
	}
	if err := t.do(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *Process) PID() int { return p.cmd.Process.Pid }

func (p *Process) Exited() <-chan struct{} { return p.done }

func (p *Process) Log() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// Kill waits for the end.
func (p *Process) Kill() {
	p.lab.Forget(p)
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop sends SIGTERM, and kills after 15 s or at once if the lab is ending.
func (p *Process) Stop() error {
	if p.lab.ending.Load() && !p.onNode {
		p.Kill()
		return nil
	}
	p.lab.Forget(p)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-p.done
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // a stopped process would not receive SIGTERM
	timer := time.NewTimer(15 * time.Second)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not stop within 15s of SIGTERM and was killed", p.name)
	}
}

func (p *Process) failed() error {
	if p.mayEnd {
		return nil
	}
	select {
	case <-p.done:
		if p.err == nil {
			return fmt.Errorf("%s ended by itself", p.name)
		}
		return fmt.Errorf("%s ended by itself: %w", p.name, p.err)
	default:
		return nil
	}
}
