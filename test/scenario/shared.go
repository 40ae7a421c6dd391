package scenario

import "sync"

// shared runs read the whole cluster, one at a time: each takes up to 0.6 s of a core here, and as much of
// the API server's (two cores, 2026), and dozens of scenarios want one at once.
type shared[T any] struct {
	mu      sync.Mutex
	pending *running[T]     // that has not begun
	last    <-chan struct{} // closed once the last one has ended
}

type running[T any] struct {
	done   chan struct{}
	result T
	err    error
}

// The run begins after the call.
func (s *shared[T]) next(run func() (T, error)) (T, error) {
	s.mu.Lock()
	now, leads, before := s.pending, s.pending == nil, s.last
	if leads {
		now = &running[T]{done: make(chan struct{})}
		s.pending, s.last = now, now.done
	}
	s.mu.Unlock()
	if leads {
		if before != nil {
			<-before
		}
		s.mu.Lock()
		s.pending = nil
		s.mu.Unlock()
		now.result, now.err = run()
		close(now.done)
	}
	<-now.done
	return now.result, now.err
}
