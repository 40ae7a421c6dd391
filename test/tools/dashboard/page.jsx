// Renders the chart's dashboard with Grafana's own libraries: scenes lays out and asks, ui
// draws. What Grafana keeps in its application and publishes nowhere is here as small as it
// gets: how panel types put those parts together, their defaults, and the data source.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { from, map } from 'rxjs';
import '@fontsource-variable/inter';
import {
  DataSourceApi, EventBusSrv, FieldType, LoadingState, PanelPlugin, createTheme, getFieldDisplayValues,
  identityOverrideProcessor, getDisplayValueAlignmentFactors, rangeUtil, renderLegendFormat,
  standardFieldConfigEditorRegistry, ThemeContext,
} from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { config, setAppEvents, setDataSourceSrv, setPluginImportUtils, setRunRequest } from '@grafana/runtime';
import {
  DataSourceVariable, EmbeddedScene, SceneControlsSpacer, SceneGridItem, SceneGridLayout, SceneQueryRunner,
  SceneRefreshPicker, SceneTimePicker, SceneTimeRange, SceneVariableSet, VariableValueSelectors, VizPanel, sceneUtils,
} from '@grafana/scenes';
import { BarGauge, BigValue, GlobalStyles, PortalContainer, TimeSeries, VizRepeater } from '@grafana/ui';
import dashboard from '../../../deploy/chart/dashboard.json';

const parameters = new URLSearchParams(window.location.search);
const scrapeInterval = '15s'; // what the data source takes for granted, unless it is told

// Prometheus asks as Grafana's data source does (pkg/promlib/models/query.go).
class Prometheus extends DataSourceApi {
  interval = scrapeInterval;
  meta = { id: 'prometheus', name: 'Prometheus', info: { logos: {} } };
  query(request) {
    return from(Promise.all(request.targets.map((target) => this.ask(target, request))).then((frames) => ({ data: frames.flat() })));
  }
  async ask(target, { range, intervalMs }) {
    const scrape = rangeUtil.intervalToMs(scrapeInterval);
    const step = Math.max(intervalMs, scrape);
    const expr = target.expr
      .replaceAll('$__rate_interval', `${Math.max(step + scrape, 4 * scrape)}ms`)
      .replaceAll('$__range', `${range.to.diff(range.from)}ms`);
    const [start, end] = [range.from, range.to].map((t) => Math.floor(t.valueOf() / step) * step / 1000);
    const asked = target.instant ? { time: range.to.valueOf() / 1000 } : { start, end, step: step / 1000 };
    const response = await fetch(`/api/v1/${target.instant ? 'query' : 'query_range'}?` + new URLSearchParams({ query: expr, ...asked }));
    const { status, error, data } = await response.json();
    if (status !== 'success') {
      throw new Error(`${expr}: ${error}`);
    }
    return data.result.map(({ metric, value, values = [value] }) => {
      const { __name__, ...labels } = metric;
      const displayNameFromDS = target.legendFormat ? renderLegendFormat(target.legendFormat, metric) : undefined;
      return {
        refId: target.refId, name: displayNameFromDS, length: values.length,
        fields: [
          { name: 'Time', type: FieldType.time, config: { interval: step }, values: values.map(([t]) => t * 1000) },
          { name: 'Value', type: FieldType.number, labels, config: { displayNameFromDS }, values: values.map(([, v]) => Number(v)) },
        ],
      };
    });
  }
  testDatasource() {}
}

// An option that nobody edits here.
const option = (path, defaultValue) => ({
  id: path, path, name: path, defaultValue, editor: () => null, override: () => null, process: identityOverrideProcessor, shouldApply: () => true,
});

// Options of a panel type, and their defaults (public/app/plugins/panel/*/panelcfg.cue).
const withDefaults = (own) => (builder) => Object.entries(own).forEach(([path, defaultValue]) => builder.addCustomEditor(option(path, defaultValue)));

const timeSeries = new PanelPlugin(({ data, fieldConfig, timeRange, timeZone, width, height, options }) => (
  data.series.length === 0
    ? <div style={{ display: 'grid', placeItems: 'center', height }}>{fieldConfig.defaults.noValue ?? 'No data'}</div>
    : <TimeSeries frames={data.series} structureRev={data.structureRev} timeRange={timeRange} timeZone={timeZone} width={width} height={height} legend={options.legend} options={options} />
))
  .useFieldConfig({
    standardOptions: { color: { defaultValue: { mode: 'palette-classic' } } },
    useCustomConfig: withDefaults({
      drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, lineStyle: undefined, fillOpacity: 0, gradientMode: 'none', barAlignment: 0,
      barWidthFactor: 0.6, showPoints: 'auto', pointSize: 5, spanNulls: false, insertNulls: false, stacking: { mode: 'none', group: 'A' },
      axisPlacement: 'auto', axisLabel: '', axisColorMode: 'text', axisBorderShow: false, axisCenteredZero: false, axisSoftMin: undefined,
      axisSoftMax: undefined, axisWidth: undefined, axisGridShow: undefined, scaleDistribution: { type: 'linear' }, thresholdsStyle: { mode: 'off' },
      hideFrom: { legend: false, tooltip: false, viz: false },
    }),
  })
  .setPanelOptions(withDefaults({ legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] }, tooltip: { mode: 'single', sort: 'none' } }));

// A type that shows values, each drawn by a component of Grafana's (StatPanel.tsx,
// BarGaugePanel.tsx in public/app/plugins/panel).
const values = (draw, itemSpacing, own) => new PanelPlugin(({ data, fieldConfig, options, timeZone, width, height, replaceVariables, renderCounter }) => (
  <VizRepeater
    source={data} width={width} height={height} renderCounter={renderCounter} orientation={options.orientation} itemSpacing={itemSpacing}
    minVizHeight={options.minVizHeight} maxVizHeight={options.maxVizHeight}
    getAlignmentFactors={getDisplayValueAlignmentFactors}
    getValues={() => getFieldDisplayValues({ fieldConfig, replaceVariables, timeZone, theme: config.theme2, reduceOptions: options.reduceOptions, data: data.series, sparkline: (options.graphMode ?? 'none') !== 'none' })}
    renderValue={({ value, ...rest }) => draw({ value: value.display, field: value.field, display: value.view?.getFieldDisplayProcessor(value.colIndex ?? 0), sparkline: value.sparkline, theme: config.theme2, ...options, ...rest })}
  />
)).useFieldConfig().setPanelOptions(withDefaults({ reduceOptions: { values: false, calcs: ['lastNotNull'], fields: '' }, orientation: 'auto', ...own }));

const stat = values((props) => <BigValue {...props} />, 3,
  { textMode: 'auto', wideLayout: true, colorMode: 'value', graphMode: 'area', justifyMode: 'auto' });

const barGauge = values(({ valueMode, ...props }) => <BarGauge {...props} itemSpacing={10} lcdCellWidth={12} valueDisplayMode={valueMode} />, 10,
  { displayMode: 'gradient', valueMode: 'color', namePlacement: 'auto', showUnfilled: true, sizing: 'auto', minVizHeight: 16, maxVizHeight: 300 });

// What Grafana's start does (public/app/app.ts).
standardFieldConfigEditorRegistry.setInit(() => Object.entries({
  displayName: '', unit: undefined, min: undefined, max: undefined, decimals: undefined, noValue: undefined, mappings: [], links: [],
  color: { mode: 'thresholds' }, thresholds: { mode: 'absolute', steps: [{ value: -Infinity, color: 'green' }, { value: 80, color: 'red' }] },
}).map(([path, defaultValue]) => option(path, defaultValue)));
config.theme2 = createTheme({ colors: { mode: 'dark' } });
setAppEvents(new EventBusSrv());
setPluginImportUtils({ importPanelPlugin: async () => undefined, getPanelPluginFromCache: () => undefined });
for (const [pluginId, plugin] of Object.entries({ timeseries: timeSeries, stat, bargauge: barGauge })) {
  sceneUtils.registerRuntimePanelPlugin({ pluginId, plugin });
}
const settings = { uid: 'prometheus', name: 'Prometheus', type: 'prometheus', isDefault: true, jsonData: {}, meta: { id: 'prometheus', info: { logos: {} } } };
const source = new Prometheus(settings);
setDataSourceSrv({ getList: () => [settings], get: async () => source, getInstanceSettings: () => settings });
setRunRequest((source, request) => source.query(request).pipe(map(({ data }) => ({ state: LoadingState.Done, series: data, timeRange: request.range, request }))));

const panel = ({ type, title, description, options, fieldConfig, targets, datasource, gridPos: { x, y, w, h } }) => new SceneGridItem({
  x, y, width: w, height: h,
  body: new VizPanel({ pluginId: type, title, description, options, fieldConfig, $data: new SceneQueryRunner({ datasource, queries: targets, maxDataPointsFromWidth: true }) }),
});

const scene = new EmbeddedScene({
  $timeRange: new SceneTimeRange({ from: parameters.get('from') ?? dashboard.time.from, to: parameters.get('to') ?? dashboard.time.to, timeZone: 'utc' }),
  $variables: new SceneVariableSet({ variables: dashboard.templating.list.map(({ name, label, query }) => new DataSourceVariable({ name, label, pluginId: query })) }),
  controls: [new VariableValueSelectors({}), new SceneControlsSpacer(), new SceneTimePicker({}), new SceneRefreshPicker({ refresh: dashboard.refresh })],
  body: new SceneGridLayout({ children: dashboard.panels.map(panel) }),
});

initPluginTranslations('grafana-scenes').then(() => createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={config.theme2}>
    <GlobalStyles />
    <scene.Component model={scene} />
    <PortalContainer />
  </ThemeContext.Provider>,
));
