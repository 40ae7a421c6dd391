package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// ContainersNeed names what this machine lacks for contained programs, "" if nothing.
func ContainersNeed() string {
	if os.Geteuid() != 0 {
		return "to run as root"
	}
	return ""
}

// Source: k8s.io/client-go/rest, InClusterConfig.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// The container has its own root and this machine's network.
func (p *Program) contain(ctx context.Context, pod *corev1.Pod, container corev1.Container) (*exec.Cmd, thread, error) {
	client, err := p.lab.Client()
	if err != nil {
		return nil, nil, err
	}
	root := p.root()
	if err := os.MkdirAll(filepath.Join(root, "tmp"), 0o777); err != nil {
		return nil, nil, err
	}
	binary := "/" + filepath.Base(p.binary)
	if err := linkOrCopy(p.binary, filepath.Join(root, binary)); err != nil {
		return nil, nil, err
	}
	config, err := p.lab.ServiceAccountConfig(ctx, p.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return nil, nil, err
	}
	mounted, err := p.mounts(ctx, client, pod, container)
	if err != nil {
		return nil, nil, err
	}
	token := contents{serviceAccountDir: {"token": []byte(config.BearerToken), "ca.crt": config.CAData, "namespace": []byte(p.Namespace)}}
	if err := errors.Join(token.write(root, nil), mounted.write(root, nil)); err != nil {
		return nil, nil, err
	}
	p.mounted = mounted
	environment, err := p.environment(ctx, client, pod, container)
	if err != nil {
		return nil, nil, err
	}
	args := container.Args
	if len(container.Command) > 1 {
		args = slices.Concat(container.Command[1:], args)
	}
	args = slices.Concat(args, p.args)
	for i := range args {
		args[i] = expand(args[i], environment)
	}
	cmd := exec.Command(binary, args...)
	cmd.Err = nil // the path is only valid inside the root
	cmd.Path, cmd.Dir, cmd.Env = binary, "/", environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	t := newThread()
	return cmd, t, t.do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
			return err
		}
		return unix.Sethostname([]byte(pod.Name)) // identity in a lease
	})
}

func (p *Program) root() string { return filepath.Join(p.lab.dir, p.name+".root") }

func (p *Program) mounts(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container corev1.Container) (contents, error) {
	mounted := contents{}
	for _, mount := range container.VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || mount.MountPath == serviceAccountDir {
			continue
		}
		files, err := p.volume(ctx, client, pod.Spec.Volumes[i])
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", mount.Name, err)
		}
		if mount.SubPath != "" {
			mounted[filepath.Dir(mount.MountPath)] = map[string][]byte{filepath.Base(mount.MountPath): files[mount.SubPath]}
			continue
		}
		mounted[mount.MountPath] = files
	}
	return mounted, nil
}

// remount updates files as a kubelet would: some programs wait for a certificate that they created.
func (p *Program) remount(ctx context.Context, pod *corev1.Pod, container corev1.Container) error {
	client, err := p.lab.Client()
	if err != nil {
		return err
	}
	mounted, err := p.mounts(ctx, client, pod, container)
	if err != nil {
		return err
	}
	before := p.mounted
	p.mounted = mounted
	return mounted.write(p.root(), before)
}

type contents map[string]map[string][]byte

// Programs watch the files: only changed ones are written.
func (c contents) write(root string, before contents) error {
	for dir, files := range c {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
		for name, data := range files {
			if was, ok := before[dir][name]; ok && bytes.Equal(was, data) {
				continue
			}
			if err := os.WriteFile(filepath.Join(root, dir, name), data, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// A missing Secret has a certificate, as from cert-manager.
func (p *Program) volume(ctx context.Context, client kubernetes.Interface, volume corev1.Volume) (map[string][]byte, error) {
	switch {
	case volume.ConfigMap != nil:
		object, err := client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return nil, optional(err, volume.ConfigMap.Optional)
		}
		files := map[string][]byte{}
		for key, text := range object.Data {
			files[key] = []byte(text)
		}
		return renamed(files, volume.ConfigMap.Items), nil
	case volume.Secret != nil:
		object, err := client.CoreV1().Secrets(p.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && p.service != "" {
			return p.pair()
		}
		if err != nil {
			return nil, optional(err, volume.Secret.Optional)
		}
		return renamed(object.Data, volume.Secret.Items), nil
	}
	return nil, nil
}

func optional(err error, may *bool) error {
	if apierrors.IsNotFound(err) && may != nil && *may {
		return nil
	}
	return err
}

func renamed(files map[string][]byte, items []corev1.KeyToPath) map[string][]byte {
	if len(items) == 0 {
		return files
	}
	chosen := map[string][]byte{}
	for _, item := range items {
		chosen[item.Path] = files[item.Key]
	}
	return chosen
}

func (p *Program) pair() (map[string][]byte, error) {
	files := map[string][]byte{"ca.crt": p.lab.CABundle()}
	for name, end := range map[string]string{"tls.crt": ".crt", "tls.key": ".key"} {
		data, err := os.ReadFile(filepath.Join(p.lab.dir, p.name+end))
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	return files, nil
}

func (p *Program) environment(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container corev1.Container) ([]string, error) {
	environment := []string{"KUBERNETES_SERVICE_HOST=" + p.lab.apiserver(), "KUBERNETES_SERVICE_PORT=443", "HOSTNAME=" + pod.Name, "HOME=/tmp", "PATH=/"}
	for _, e := range container.Env {
		value := expand(e.Value, environment)
		if from := e.ValueFrom; from != nil {
			var err error
			switch {
			case from.FieldRef != nil:
				value = map[string]string{
					"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID),
					"spec.nodeName": pod.Spec.NodeName, "spec.serviceAccountName": pod.Spec.ServiceAccountName, "status.podIP": "127.0.0.1",
				}[from.FieldRef.FieldPath]
			case from.ConfigMapKeyRef != nil:
				var object *corev1.ConfigMap
				object, err = client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, from.ConfigMapKeyRef.Name, metav1.GetOptions{})
				if err == nil {
					value = object.Data[from.ConfigMapKeyRef.Key]
				}
				err = optional(err, from.ConfigMapKeyRef.Optional)
			case from.SecretKeyRef != nil:
				var object *corev1.Secret
				object, err = client.CoreV1().Secrets(p.Namespace).Get(ctx, from.SecretKeyRef.Name, metav1.GetOptions{})
				if err == nil {
					value = string(object.Data[from.SecretKeyRef.Key])
				}
				err = optional(err, from.SecretKeyRef.Optional)
			}
			if err != nil {
				return nil, fmt.Errorf("environment %s: %w", e.Name, err)
			}
		}
		environment = append(environment, e.Name+"="+value)
	}
	return environment, nil
}

var reference = regexp.MustCompile(`\$\([A-Za-z_][A-Za-z0-9_]*\)`)

// Unknown names stay, as by the kubelet.
func expand(text string, environment []string) string {
	return reference.ReplaceAllStringFunc(text, func(name string) string {
		for _, e := range slices.Backward(environment) {
			if value, ok := strings.CutPrefix(e, name[2:len(name)-1]+"="); ok {
				return value
			}
		}
		return name
	})
}

func linkOrCopy(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	in, err := os.Open(from) // on another file system
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (p *Program) forward(ctx context.Context) error {
	client, err := p.lab.Client()
	if err != nil {
		return err
	}
	deployment, err := client.AppsV1().Deployments(p.Namespace).Get(ctx, p.Deployment, metav1.GetOptions{})
	if err != nil {
		return err
	}
	service, err := client.CoreV1().Services(p.Namespace).Get(ctx, p.service, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, port := range service.Spec.Ports {
		target := port.TargetPort.IntValue()
		if port.TargetPort.Type == intstr.String {
			for _, c := range deployment.Spec.Template.Spec.Containers {
				for _, declared := range c.Ports {
					if declared.Name == port.TargetPort.StrVal {
						target = int(declared.ContainerPort)
					}
				}
			}
		}
		if p.port != 0 {
			target = p.port
		}
		if err := p.lab.Forward(ctx, p.Namespace, p.service, int(port.Port), net.JoinHostPort("127.0.0.1", strconv.Itoa(target))); err != nil {
			return err
		}
	}
	return nil
}
