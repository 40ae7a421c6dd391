package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Replicas balances new connections among ready replicas, as kube-proxy does.
type Replicas struct {
	listener net.Listener
	turn     atomic.Uint64

	mu  sync.Mutex
	all []Replica
}

// Replica is one backend; Readiness is a URL.
type Replica struct{ Address, Readiness string }

// Balance ends with ctx.
func Balance(ctx context.Context, address string) (*Replicas, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("stand in for kube-proxy: %w", err)
	}
	r := &Replicas{listener: listener}
	context.AfterFunc(ctx, func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.carry(ctx, conn.(*net.TCPConn))
		}
	}()
	return r, nil
}

func (r *Replicas) Add(replica Replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, replica)
}

func (r *Replicas) Remove(replica Replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(other Replica) bool { return other == replica })
}

func (r Replica) Ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Readiness, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (r *Replicas) carry(ctx context.Context, from *net.TCPConn) {
	defer from.Close()
	r.mu.Lock()
	all := slices.Clone(r.all)
	r.mu.Unlock()
	first := r.turn.Add(1)
	for n := range all {
		to, err := new(net.Dialer).DialContext(ctx, "tcp", all[(first+uint64(n))%uint64(len(all))].Address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if err != nil {
			break
		}
		defer to.Close()
		stop := context.AfterFunc(ctx, func() { from.Close(); to.Close() })
		defer stop()
		back := make(chan struct{})
		go func() {
			defer close(back)
			_, _ = io.Copy(from, to) // either side may hang up
			_ = from.CloseWrite()
		}()
		_, _ = io.Copy(to, from)
		_ = to.(*net.TCPConn).CloseWrite()
		<-back
		return
	}
	_ = from.SetLinger(0) // resets the connection, as kube-proxy does
}
