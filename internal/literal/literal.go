// Package literal writes values as Go source, of which the linker makes data: no start has
// to read what lies in the program so. Tests write and hold such files.
package literal

import (
	"bytes"
	"fmt"
	"go/format"
	"reflect"
	"strings"
)

// File is a Go file of a package with a variable, a slice with a line for each item. It leaves
// out fields that are zero, and those that are no data: functions, and structs of other packages.
func File(pkg, variable, comment string, slice any) ([]byte, error) {
	v := reflect.ValueOf(slice)
	own := v.Type().Elem().PkgPath()
	var out bytes.Buffer
	fmt.Fprintf(&out, "// Code generated %s. DO NOT EDIT.\n\npackage %s\n\nvar %s = %s{\n", comment, pkg, variable, name(v))
	for i := range v.Len() {
		write(&out, v.Index(i), own)
		out.WriteString(",\n")
	}
	out.WriteString("}\n")
	return format.Source(out.Bytes())
}

func write(out *bytes.Buffer, v reflect.Value, own string) {
	switch v.Kind() {
	case reflect.Struct:
		out.WriteString(name(v) + "{")
		for i := range v.NumField() {
			field := v.Field(i)
			if field.IsZero() || field.Kind() == reflect.Func || field.Kind() == reflect.Pointer && field.Type().Elem().PkgPath() != own {
				continue
			}
			out.WriteString(v.Type().Field(i).Name + ": ")
			write(out, field, own)
			out.WriteString(", ")
		}
		out.WriteString("}")
	case reflect.Pointer:
		out.WriteString("&")
		write(out, v.Elem(), own)
	case reflect.Slice:
		out.WriteString(name(v) + "{")
		for i := range v.Len() {
			write(out, v.Index(i), own)
			out.WriteString(", ")
		}
		out.WriteString("}")
	default: // texts, truths, numbers, and maps of them
		fmt.Fprintf(out, "%#v", v)
	}
}

// name is that of a type, within its package.
func name(v reflect.Value) string {
	prefix, rest, found := strings.Cut(v.Type().String(), ".")
	if !found {
		return prefix
	}
	return prefix[:strings.LastIndexByte(prefix, ']')+1] + rest // []pkg.T is []T
}
