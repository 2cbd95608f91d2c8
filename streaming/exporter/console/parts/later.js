/** What may wait until the part of the page that people look at first is drawn. */
import { Component } from "../ui.js";

/** Props: `children`, a function that is called once `wait` ms have passed and the frame is drawn. */
export class Later extends Component {
  state = { isTime: false };

  componentDidMount() {
    this.timer = setTimeout(() => requestAnimationFrame(() => this.setState({ isTime: true })),
      this.props.wait);
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  render({ children }, { isTime }) {
    return isTime && children();
  }
}
