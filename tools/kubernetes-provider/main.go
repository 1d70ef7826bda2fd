// Command pulumi-resource-kubernetes serves the Kubernetes provider from the
// only form in which its module is published: a library whose schema files are
// generated at release time. They are read from beside the executable, where
// the toolchain puts them, so that none of them is kept in this repository.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func readBesideExecutable(name string) []byte {
	executable, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(filepath.Dir(executable), name))
	if err != nil {
		log.Fatal(err)
	}
	return content
}

func main() {
	provider.Serve("kubernetes", version.Version,
		readBesideExecutable("schema.json"), readBesideExecutable("terraform-mapping.json"))
}
