// Command hpa-oracle says what Kubernetes' own HorizontalPodAutoscaler
// controller does in given situations: the whole controller, with the defaults
// of the controller manager, on a scale target, pods and metrics that are
// simulated, in simulated time.
//
// It reads a situation per line from standard input, as JSON, and writes a line
// for each: a list of what was observed at each sync.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	coreinformers "k8s.io/client-go/informers/core/v1"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	configv1alpha1 "k8s.io/kube-controller-manager/config/v1alpha1"
	defaultsv2 "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	podautoscalerconfig "k8s.io/kubernetes/pkg/controller/podautoscaler/config/v1alpha1"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

const name = "situation"

type situation struct {
	SyncSeconds int32                                     `json:"sync_seconds"`
	Replicas    int32                                     `json:"replicas"`
	Spec        autoscalingv2.HorizontalPodAutoscalerSpec `json:"spec"`
	Syncs       []input                                   `json:"syncs"`
}

type input struct {
	// What somebody else sets on the scale target before the sync, if anything.
	Replicas *int32 `json:"replicas"`
	Pods     []pod  `json:"pods"`
	// For each metric the thousandths by the name of the pod, empty where it can't be read.
	Samples []map[string]int64 `json:"samples"`
}

type pod struct {
	Name        string          `json:"name"`
	Phase       corev1.PodPhase `json:"phase"`
	Terminating bool            `json:"terminating"`
}

type observation struct {
	Seconds    float64           `json:"seconds"`
	Current    int32             `json:"current"`
	Desired    int32             `json:"desired"`
	Usages     []*int64          `json:"usages"`
	Conditions map[string]string `json:"conditions"`
}

// world is all that the controller sees and changes: one HPA and its target.
type world struct {
	situation
	started  time.Time
	observed []observation
	hpas     cache.Indexer
	finished chan struct{}
}

func (w *world) now() input { return w.Syncs[len(w.observed)] }

func (w *world) Scales(string) scale.ScaleInterface { return scales{world: w} }

type scales struct {
	scale.ScaleInterface
	*world
}

// Get is what a sync begins with.
func (s scales) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*autoscalingv1.Scale, error) {
	if set := s.now().Replicas; set != nil {
		s.Replicas = *set
	}
	return &autoscalingv1.Scale{
		Spec:   autoscalingv1.ScaleSpec{Replicas: s.Replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: s.Replicas, Selector: "app=" + name},
	}, nil
}

func (s scales) Update(
	_ context.Context, _ schema.GroupResource, updated *autoscalingv1.Scale, _ metav1.UpdateOptions,
) (*autoscalingv1.Scale, error) {
	s.Replicas = updated.Spec.Replicas
	return updated, nil
}

func (w *world) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return statuses{world: w}
}

type statuses struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	*world
}

// UpdateStatus is what a sync ends with. The status is not kept, so that it tells of this sync alone.
func (s statuses) UpdateStatus(
	_ context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler, _ metav1.UpdateOptions,
) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	seen := observation{
		Seconds:    time.Since(s.started).Seconds(),
		Current:    hpa.Status.CurrentReplicas,
		Desired:    s.Replicas,
		Usages:     []*int64{},
		Conditions: map[string]string{},
	}
	for _, metric := range hpa.Status.CurrentMetrics {
		var usage *int64
		if metric.Pods != nil {
			milli := metric.Pods.Current.AverageValue.MilliValue()
			usage = &milli
		}
		seen.Usages = append(seen.Usages, usage)
	}
	for _, condition := range hpa.Status.Conditions {
		seen.Conditions[string(condition.Type)] = condition.Reason
	}
	s.observed = append(s.observed, seen)
	if len(s.observed) == len(s.Syncs) {
		// Without its HPA the controller asks for nothing more.
		if err := s.hpas.Delete(hpa); err != nil {
			log.Fatal(err)
		}
		close(s.finished)
	}
	return hpa, nil
}

type metricsClient struct {
	metrics.MetricsClient
	*world
}

func (c metricsClient) GetRawMetric(metric, _ string, _, _ labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	for index, spec := range c.Spec.Metrics {
		if spec.Pods.Metric.Name != metric {
			continue
		}
		values := metrics.PodMetricsInfo{}
		for pod, value := range c.now().Samples[index] {
			values[pod] = metrics.PodMetric{Value: value}
		}
		if len(values) > 0 {
			return values, time.Now(), nil
		}
	}
	return nil, time.Time{}, errors.New("no metrics returned from custom metrics API")
}

type podLister struct {
	corelisters.PodLister
	*world
}

func (l podLister) Pods(string) corelisters.PodNamespaceLister { return pods{world: l.world} }

type pods struct {
	corelisters.PodNamespaceLister
	*world
}

func (p pods) List(labels.Selector) ([]*corev1.Pod, error) {
	var listed []*corev1.Pod
	for _, pod := range p.now().Pods {
		one := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: name, Labels: map[string]string{"app": name}},
			Status:     corev1.PodStatus{Phase: pod.Phase},
		}
		if pod.Terminating {
			one.DeletionTimestamp = &metav1.Time{Time: p.started}
		}
		listed = append(listed, one)
	}
	return listed, nil
}

// informer is in sync from the start and hands on what it is told.
type informer struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (i *informer) HasSynced() bool { return true }
func (i *informer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return nil, nil
}

type hpaInformer struct {
	*informer
	hpas cache.Indexer
}

func (i hpaInformer) Informer() cache.SharedIndexInformer { return i.informer }
func (i hpaInformer) Lister() autoscalinglisters.HorizontalPodAutoscalerLister {
	return autoscalinglisters.NewHorizontalPodAutoscalerLister(i.hpas)
}

type podInformer struct {
	*informer
	*world
}

func (i podInformer) Informer() cache.SharedIndexInformer { return i.informer }
func (i podInformer) Lister() corelisters.PodLister       { return podLister{world: i.world} }

var (
	_ autoscalinginformers.HorizontalPodAutoscalerInformer = hpaInformer{}
	_ coreinformers.PodInformer                            = podInformer{}
)

type eventSink struct{ coreclient.EventInterface }

func (eventSink) Events(string) coreclient.EventInterface { return eventSink{} }
func (eventSink) CreateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	return event, nil
}
func (eventSink) PatchWithEventNamespace(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return event, nil
}

func observe(mapper meta.RESTMapper, s situation) []observation {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: name},
		Spec:       s.Spec,
	}
	defaultsv2.SetDefaults_HorizontalPodAutoscaler(hpa)
	var defaults configv1alpha1.HPAControllerConfiguration
	podautoscalerconfig.RecommendedDefaultHPAControllerConfiguration(&defaults)
	w := &world{
		situation: s,
		started:   time.Now(),
		hpas:      cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		finished:  make(chan struct{}),
	}
	if err := w.hpas.Add(hpa); err != nil {
		log.Fatal(err)
	}
	watched := &informer{}
	controller := podautoscaler.NewHorizontalController(
		ctx, eventSink{}, w, w, mapper, metricsClient{world: w},
		hpaInformer{informer: watched, hpas: w.hpas}, podInformer{informer: &informer{}, world: w},
		time.Duration(s.SyncSeconds)*time.Second,
		defaults.HorizontalPodAutoscalerDownscaleStabilizationWindow.Duration,
		defaults.HorizontalPodAutoscalerTolerance,
		defaults.HorizontalPodAutoscalerCPUInitializationPeriod.Duration,
		defaults.HorizontalPodAutoscalerInitialReadinessDelay.Duration,
	)
	watched.handler.OnAdd(hpa, true)
	go controller.Run(ctx, 1)
	<-w.finished
	return w.observed
}

func answer() {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	for decoder := json.NewDecoder(os.Stdin); ; {
		var s situation
		if err := decoder.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		if err := encoder.Encode(observe(mapper, s)); err != nil {
			log.Fatal(err)
		}
	}
	if err := output.Flush(); err != nil {
		log.Fatal(err)
	}
}

func main() {
	klog.SetLogger(logr.Discard())
	// The handler of errors sleeps, which would move the simulated time.
	utilruntime.ErrorHandlers = nil
	// Simulated time is given to tests only.
	testing.Main(nil, []testing.InternalTest{{Name: name, F: func(t *testing.T) {
		synctest.Test(t, func(*testing.T) {
			answer()
			os.Exit(0)
		})
	}}}, nil, nil)
}
