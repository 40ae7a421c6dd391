package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	ours "github.com/termguard/termguard/webhook"
)

func (b *bench) serveNothing(ctx context.Context) error {
	address, certificate, err := b.Certify(ctx, "default", "noop")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.noop, err = b.StartProcess("noop", self, "-no-op", address, "-certificate", certificate)
	return err
}

func doNothing(ctx context.Context, address, certificate string) error {
	log.SetLogger(logr.Discard())
	folder, name := filepath.Split(certificate)
	server := webhook.NewServer(webhook.Options{Host: address, Port: 443, CertDir: folder, CertName: name + ".crt", KeyName: name + ".key"})
	server.Register(ours.Path, &webhook.Admission{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Allowed("")
	})})
	return server.Start(ctx)
}
